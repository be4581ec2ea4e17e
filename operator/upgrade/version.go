package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// VersionError is the error for a version that a cluster must not take.
type VersionError struct {
	From, To string
	Why      string
	Remedy   string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("version %s is not put in the place of %s: %s; %s", e.To, e.From, e.Why, e.Remedy)
}

// ImageVersion returns the version in the tag of an image, and false if the tag is none, as with
// a digest or with latest.
func ImageVersion(image string) (string, bool) {
	name, _, _ := strings.Cut(image, "@")
	slash := strings.LastIndex(name, "/")
	colon := strings.LastIndex(name, ":")
	if colon <= slash {
		return "", false
	}
	_, err := version.ParseSemantic(name[colon+1:])
	return strings.TrimPrefix(name[colon+1:], "v"), err == nil
}

// Known returns the newest version that a status tells of: that which it names, or where none is
// named yet, as by an operator that only told what runs, the newest of those.
func Known(newest, running string) string {
	if newest != "" {
		return newest
	}
	return Newest("", strings.Split(running, ","), "")
}

// Newest returns the newest version that a cluster has run: of what was so far and what runs now.
// When all that runs is the version that a person has allowed, it is that one, as what was
// before does not come back. Versions that are not semantic do not count.
func Newest(was string, running []string, allowed string) string {
	if len(running) > 0 && !slices.ContainsFunc(running, func(v string) bool { return !sameRelease(v, allowed) }) {
		return running[0]
	}
	newest, err := version.ParseSemantic(was)
	for _, v := range running {
		is, wrong := version.ParseSemantic(v)
		if wrong == nil && (err != nil || newest.LessThan(is)) {
			was, newest, err = v, is, nil
		}
	}
	return was
}

// sameRelease reports whether two versions are of one release of the program: tags of images may
// have a suffix of their user's, as in 0.1.0-mirror1, of which the program knows nothing.
func sameRelease(a, b string) bool {
	x, xErr := version.ParseSemantic(a)
	y, yErr := version.ParseSemantic(b)
	if xErr != nil || yErr != nil {
		return a == b
	}
	return slices.Equal(x.Components(), y.Components())
}

// CheckVersions returns a *VersionError if an image must not replace the running versions. A
// version that is not semantic is not checked. The version allowed, if not empty, is always
// accepted: a person has named it.
func CheckVersions(running []string, image, allowed string) error {
	to, known := ImageVersion(image)
	if !known || sameRelease(to, allowed) {
		return nil
	}
	next := version.MustParseSemantic(to)
	for _, from := range running {
		is, err := version.ParseSemantic(from)
		if err != nil {
			continue
		}
		switch {
		case next.Major() < is.Major() || next.Major() == is.Major() && next.Minor() < is.Minor():
			return &VersionError{from, to, "older programs may not read what newer ones have written",
				"go forward to a later version, or restore a backup into a new cluster"}
		case next.Major() == is.Major() && next.Minor() > is.Minor()+1:
			return &VersionError{from, to, "programs work together with those of the next minor version only",
				fmt.Sprintf("upgrade to %d.%d first", is.Major(), is.Minor()+1)}
		case next.Major() > is.Major()+1 || next.Major() == is.Major()+1 && next.Minor() > 0:
			return &VersionError{from, to, "programs work together with those of the next version only",
				fmt.Sprintf("upgrade to %d.0 first", is.Major()+1)}
		}
	}
	return nil
}
