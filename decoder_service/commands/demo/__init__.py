"""``draftwell demo``: real prompts, decoded plainly and with drafts, side by side."""
