package archive

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3Options say where S3-compatible storage is, and who asks.
type S3Options struct {
	// Endpoint is https://host or http://host:port.
	Endpoint string
	// Region; empty: what the storage says.
	Region string
	// AccessKeyID and SecretAccessKey; both empty: requests are not signed.
	AccessKeyID, SecretAccessKey string
	// CAFile has the CAs of the storage's certificate; empty: the system's.
	CAFile string
}

// S3 is a Store in a bucket. Requests that fail for a reason that may pass are repeated,
// by the library, up to ten times.
type S3 struct {
	client         *minio.Client
	bucket, prefix string
}

var _ Store = (*S3)(nil)

// NewS3 returns the store of a bucket, which has to be there. Nothing is asked yet. Errors:
// ErrTarget, those of reading CAFile.
func NewS3(bucket, prefix string, o S3Options) (*S3, error) {
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil || endpoint.Host == "" || strings.Trim(endpoint.Path, "/") != "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
		return nil, fmt.Errorf("%w: the endpoint of S3 storage is %q: expected https://host or http://host:port", ErrTarget, o.Endpoint)
	}
	secure := endpoint.Scheme == "https"
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	if o.CAFile != "" && secure {
		if err := trust(transport, o.CAFile); err != nil {
			return nil, err
		}
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds: credentials.NewStaticV4(o.AccessKeyID, o.SecretAccessKey, ""), Secure: secure, Region: o.Region, Transport: transport,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTarget, err)
	}
	if prefix != "" {
		prefix += "/"
	}
	return &S3{client: client, bucket: bucket, prefix: prefix}, nil
}

func trust(t *http.Transport, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%w: %s has no certificate", ErrTarget, file)
	}
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	t.TLSClientConfig.RootCAs = pool
	return nil
}

// String names the bucket and the prefix.
func (s *S3) String() string {
	return schemeS3 + s.bucket + "/" + strings.TrimSuffix(s.prefix, "/")
}

// failed names what could not be done.
func (s *S3) failed(what, key string, err error) error {
	if err == nil {
		return nil
	}
	name := schemeS3 + s.bucket + "/" + s.prefix + key
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return fmt.Errorf("%s: %w", name, ErrNone)
	}
	return fmt.Errorf("%s %s: %w", what, name, err)
}

// Put implements Store.
func (s *S3) Put(ctx context.Context, key string, content []byte) error {
	_, err := s.client.PutObject(ctx, s.bucket, s.prefix+key, bytes.NewReader(content), int64(len(content)),
		minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true, SendContentMd5: true})
	return s.failed("write", key, err)
}

// Get implements Store.
func (s *S3) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	var o minio.GetObjectOptions
	if length < 1 || offset < 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	if offset > 0 { // from 0 on an object that is empty has no range
		if err := o.SetRange(offset, offset+length-1); err != nil {
			return nil, s.failed("read", key, err)
		}
	}
	object, _, _, err := (&minio.Core{Client: s.client}).GetObject(ctx, s.bucket, s.prefix+key, o)
	if err != nil {
		if minio.ToErrorResponse(err).Code == minio.InvalidRange {
			return io.NopCloser(bytes.NewReader(nil)), nil
		}
		return nil, s.failed("read", key, err)
	}
	return limited{io.LimitReader(object, length), object}, nil
}

// List implements Store.
func (s *S3) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		ctx, cancel := context.WithCancel(ctx) // ends the listing when the caller stops early
		defer cancel()
		for object := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
			if object.Err != nil {
				yield(Info{}, s.failed("list", prefix, object.Err))
				return
			}
			info := Info{Key: strings.TrimPrefix(object.Key, s.prefix), Bytes: object.Size, ModifiedAt: object.LastModified}
			if !yield(info, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Info{}, err)
		}
	}
}

// Delete implements Store.
func (s *S3) Delete(ctx context.Context, key string) error {
	err := s.failed("delete", key, s.client.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{}))
	if errors.Is(err, ErrNone) {
		return nil
	}
	return err
}
