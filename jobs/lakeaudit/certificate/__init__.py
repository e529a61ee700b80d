"""Certificates of audits: their content, their signatures, and their verification."""
