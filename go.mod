module github.com/tickmesh/tickmesh

go 1.26.0
