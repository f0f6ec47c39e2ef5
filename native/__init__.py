"""Programs: described by recipes, fetched, built, and known by their manifests."""
