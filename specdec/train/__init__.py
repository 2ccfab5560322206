"""Training of draft heads on the verifier's own text: prompts, answers, features."""
