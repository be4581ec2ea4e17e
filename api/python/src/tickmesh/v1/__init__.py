"""Generated from proto/tickmesh/v1 by hack/scripts/python-generate.sh."""
