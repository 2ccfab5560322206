"""Hidden checks of exercise 4. Instructor only: nothing of this folder reaches a student."""
