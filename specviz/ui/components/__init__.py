"""Streamlit components of our own: a Python wrapper beside plain .js and .css files, no build step."""
