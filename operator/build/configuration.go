package build

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Configuration returns what is to be applied of an object: only what was decided, so
// without its status. Errors: an object that is no JSON, which none of this package is.
func Configuration(o Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("%T %s: %w", o, o.GetName(), err)
	}
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}, nil
}
