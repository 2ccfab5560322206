"""Hidden checks of exercise 5: the training-time test on a packed, ragged batch."""
