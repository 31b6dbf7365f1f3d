"""``draftwell bench``: methods of decoding side by side, on the same prompts, in one run."""
