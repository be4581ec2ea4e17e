package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
)

// Parts of values.yaml that only the chart tickmesh has: a comment and what it is about.
var (
	clusterValues = regexp.MustCompile(`(?m)^cluster:\n(?:(?: .*)?\n)+`)
	enabledValue  = regexp.MustCompile(`(?m)(?:^  #.*\n)+^  enabled: true\n`)
)

// operatorValues returns the values of the chart tickmesh-operator from those of tickmesh, so that whoever
// changes from the one to the other keeps what was set.
func operatorValues(values []byte) ([]byte, error) {
	out := values
	for _, part := range []*regexp.Regexp{clusterValues, enabledValue} {
		at := part.FindIndex(out)
		if at == nil {
			return nil, errors.New("there is nothing like " + part.String())
		}
		out = append(bytes.Clone(out[:at[0]]), out[at[1]:]...)
	}
	return out, nil
}

// operatorSchema returns their schema from the base of that of tickmesh.
func operatorSchema(base []byte) ([]byte, error) {
	var whole struct {
		Schema               string                     `json:"$schema"`
		Title                string                     `json:"title"`
		Type                 string                     `json:"type"`
		AdditionalProperties bool                       `json:"additionalProperties"`
		Properties           map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(base, &whole); err != nil {
		return nil, err
	}
	var operator map[string]any
	if err := json.Unmarshal(whole.Properties["operator"], &operator); err != nil {
		return nil, err
	}
	properties, ok := operator["properties"].(map[string]any)
	if !ok {
		return nil, errors.New("operator has no properties")
	}
	delete(properties, "enabled")
	delete(whole.Properties, "cluster")
	whole.Title = "Values of the chart tickmesh-operator"
	var err error
	if whole.Properties["operator"], err = json.Marshal(operator); err != nil {
		return nil, err
	}
	return indented(whole)
}
