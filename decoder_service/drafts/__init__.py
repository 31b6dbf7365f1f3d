"""Where drafts come from, one module a source."""
