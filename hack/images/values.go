package main

import (
	"bytes"
	"fmt"
)

// valuesFile has values of the charts for a registry that has the images: `helm install … --values FILE`.
const valuesFile = "values.yaml"

// chartImage is an image as the charts' values name it.
type chartImage struct{ repository, tag, digest string }

// chartValues returns values by names of programs. Of what was not made it leaves out the values.
func chartValues(images map[string]chartImage) []byte {
	var out bytes.Buffer
	out.WriteString("# Values of the charts for a registry that these images were copied to.\n")
	write := func(program, before, after string) {
		if i, ok := images[program]; ok {
			fmt.Fprintf(&out, "%simage: {repository: %q, tag: %q, digest: %q}%s\n", before, i.repository, i.tag, i.digest, after)
		}
	}
	write("tickmesh", "", "")
	write("tickmesh-operator", "operator: {", "}")
	return out.Bytes()
}
