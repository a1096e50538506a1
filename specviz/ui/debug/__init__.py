"""Parts of the Debug page: an audit and what it says, other engines' logs."""
