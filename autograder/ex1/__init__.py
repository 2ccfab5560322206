"""Hidden checks of exercise 1. Instructor only: nothing of this folder reaches a student."""
