"""Hidden checks of exercise 3. Instructor only: nothing of this folder reaches a student."""
