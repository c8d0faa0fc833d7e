"""Closed-form features and validity of candidates, with one module for each kind of device."""
