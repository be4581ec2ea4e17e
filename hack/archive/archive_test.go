package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"testing"
)

// What is written is read back, and has the same bytes each time.
func TestWrite(t *testing.T) {
	files := []File{{"a/b", 0o644, []byte("text")}, {"c", 0o755, nil}}
	content, err := Write(files...)
	again, failed := Write(files...)
	if err != nil || failed != nil || !bytes.Equal(content, again) {
		t.Fatal(err, failed)
	}
	plain, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	reader := tar.NewReader(plain)
	for _, want := range files {
		header, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		is, err := io.ReadAll(reader)
		if err != nil || header.Name != want.Name || header.Mode != int64(want.Mode) || !bytes.Equal(is, want.Content) || header.ModTime.Unix() != 0 {
			t.Errorf("%v: %q, %v", header, is, err)
		}
	}
	if header, err := reader.Next(); !errors.Is(err, io.EOF) {
		t.Error(fmt.Sprint(header, err))
	}
}
