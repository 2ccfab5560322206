"""Hidden checks and the rubric of exercise 2. Instructor only: nothing of this folder reaches a student."""
