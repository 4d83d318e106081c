"""Results over HTTP: vectors, scores and predictions of runs, with OpenAPI. The extra `serve`."""
