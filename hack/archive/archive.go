// Package archive writes archives of releases: tar, compressed by gzip, with the same bytes for the same
// files, since they name no times and no owners.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"time"
)

// File is one of an archive.
type File struct {
	Name    string // with slashes
	Mode    fs.FileMode
	Content []byte
}

// Write returns the archive of files, in their order.
func Write(list ...File) ([]byte, error) {
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	files := tar.NewWriter(zipped)
	for _, f := range list {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.Name, Mode: int64(f.Mode.Perm()), Size: int64(len(f.Content)),
			ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		}
		if err := files.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := files.Write(f.Content); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(files.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}
