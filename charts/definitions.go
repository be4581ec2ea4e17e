// Package charts has what the operator carries of its chart: the definitions of its
// resources.
//
// Helm installs the files of a chart's folder crds before all others, and never again.
// They have to be there, because helm asks the API server about every kind of a release,
// the TickMeshCluster of the chart among them, before it makes the first object. So an
// upgrade runs a Job of the new operator first, which applies the definitions that it
// was built with; it has the right to do that, and the operator itself has not.
package charts

import (
	"embed"
	"io/fs"
)

//go:embed tickmesh/crds/*.yaml
var files embed.FS

// Definitions returns the definitions of the resources, each as YAML, in the order of
// their names.
func Definitions() ([][]byte, error) {
	names, err := fs.Glob(files, "tickmesh/crds/*.yaml")
	if err != nil {
		return nil, err
	}
	definitions := make([][]byte, 0, len(names))
	for _, name := range names {
		definition, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}
