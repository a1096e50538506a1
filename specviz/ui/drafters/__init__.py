"""Parts of the Drafters page: β along a text, the same prompt under every drafter, what each kind is."""
