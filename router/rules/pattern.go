package rules

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/loopback"
	"github.com/tickmesh/tickmesh/api/series"
)

// Pattern names the files of one database.
type Pattern struct {
	Database string // canonical: "" is the default one
	Path     string // a file, or a pattern of filepath.Match
}

// ParsePattern reads PATTERN, which is of the default database, or DATABASE=PATTERN. A path that has a '=' needs
// the form with a database.
func ParsePattern(text string) (Pattern, error) {
	p := Pattern{Path: text}
	if name, path, ok := strings.Cut(text, "="); ok {
		if name == "" {
			return p, errors.New("expected DATABASE=PATTERN, and there is no database")
		}
		if err := series.ValidateDatabase(name); err != nil {
			return p, err
		}
		p = Pattern{access.Canonical(name), path}
	}
	if p.Path == "" {
		return p, errors.New("expected the path of a file, or a pattern")
	}
	if _, err := filepath.Match(p.Path, ""); err != nil {
		return p, fmt.Errorf("pattern %q: %w", p.Path, err)
	}
	return p, nil
}

// ParseLabels reads labels as NAME=VALUE.
func ParseLabels(texts []string) (labels.Labels, error) {
	all := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		switch {
		case !ok:
			return labels.EmptyLabels(), fmt.Errorf("%q: expected NAME=VALUE", text)
		case !model.UTF8Validation.IsValidLabelName(name) || name == model.MetricNameLabel:
			return labels.EmptyLabels(), fmt.Errorf("%q: not a name of a label", name)
		case !model.LabelValue(value).IsValid():
			return labels.EmptyLabels(), fmt.Errorf("%q: not a value of a label", value)
		}
		if _, twice := all[name]; twice {
			return labels.EmptyLabels(), fmt.Errorf("label %s is there twice", name)
		}
		all[name] = value
	}
	return labels.FromMap(all), nil
}

// ParseURL reads a URL of HTTP. One with a password is of HTTPS, or of this machine.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("expected a URL") // url's error has the text, and with it a password
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("expected http://HOST or https://HOST, with a port and a path where they are needed")
	case u.User != nil && u.Scheme != "https" && !loopback.IsHost(u.Hostname()):
		return nil, errors.New("the user and password in it would cross the network for everybody to read: use https")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("expected a URL without a query")
	}
	return u, nil
}
