package envoy

import (
	"bytes"
	"embed"
	"fmt"
	"text/template"
)

//go:embed bootstrap.yaml.tmpl edge.yaml.tmpl clients.yaml.tmpl upstream.yaml.tmpl
var files embed.FS

// Names of the files that Secrets returns. Envoy takes a file only if it has one secret.
const (
	edgeFile     = "edge.yaml"
	clientsFile  = "clients.yaml"
	upstreamFile = "upstream.yaml"
)

// Bootstrap returns the YAML that `envoy --config-path` reads. Errors: ErrOptions.
func Bootstrap(o Options) ([]byte, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return execute("bootstrap.yaml.tmpl", o)
}

// Secrets returns the YAML files, by name, that tell Envoy where its certificates are and
// that it shall follow them. They do not change when certificates do. Errors: ErrOptions.
func Secrets(o Options) (map[string][]byte, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	secrets := map[string][]byte{}
	var err error
	if o.Edge != nil {
		if secrets[edgeFile], err = execute("edge.yaml.tmpl", o); err != nil {
			return nil, err
		}
	}
	if o.Edge != nil && o.Edge.ClientCA {
		if secrets[clientsFile], err = execute("clients.yaml.tmpl", o); err != nil {
			return nil, err
		}
	}
	if o.Upstream != nil {
		if secrets[upstreamFile], err = execute("upstream.yaml.tmpl", o); err != nil {
			return nil, err
		}
	}
	return secrets, nil
}

func execute(name string, o Options) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").ParseFS(files, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var text bytes.Buffer
	if err := t.ExecuteTemplate(&text, name, o); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text.Bytes(), nil
}
