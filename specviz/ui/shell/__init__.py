"""What stands around every page: navigation, tours, links for a class, chart and text helpers."""
