"""Draftwell's decoder service."""
