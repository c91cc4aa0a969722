"""The dashboard: pages made on the server from projections, with no build step and no request to another host."""
