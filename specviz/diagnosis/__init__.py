"""Why a draft gets rejected, over many prompts: causes, curves, what would help, and engines' logs."""
