"""Hooks into the compiler that note its single steps and can switch them off."""
