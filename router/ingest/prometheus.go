package ingest

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// Headers of remote write 2.0: https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/
const (
	headerSamplesWritten    = "X-Prometheus-Remote-Write-Samples-Written"
	headerHistogramsWritten = "X-Prometheus-Remote-Write-Histograms-Written"
	headerExemplarsWritten  = "X-Prometheus-Remote-Write-Exemplars-Written"
)

// parseRemoteWrite takes the body of /api/v1/write.
func (f *front) parseRemoteWrite(request *fasthttp.RequestCtx, fl *inFlightWrite, body []byte) error {
	version, err := remoteWriteVersion(request.Request.Header.ContentType())
	if err != nil {
		return err
	}
	fl.worker.batch.Extra = f.withoutReplica(fl.options.extra)
	err = parse.RemoteWrite(&fl.worker.batch, body, version, f.options.Limits.Line)
	f.metrics.native.Add(int64(fl.worker.batch.SkippedHistograms))
	return err
}

// withoutReplica returns the extra labels of a remote write, which also take the label of Options.ReplicaLabel away.
func (f *front) withoutReplica(extra parse.ExtraLabels) parse.ExtraLabels {
	switch {
	case f.options.ReplicaLabel == "":
		return extra
	case len(extra.Text()) == 0:
		return f.replicaTaken
	}
	return extra.Without(f.options.ReplicaLabel)
}

// remoteWriteVersion reads a Content-Type. None means 1.0, as in Prometheus.
func remoteWriteVersion(contentType []byte) (parse.RemoteWriteVersion, error) {
	media, parameters, _ := bytes.Cut(contentType, []byte(";"))
	if media = bytes.TrimSpace(media); len(media) > 0 && !bytes.EqualFold(media, []byte("application/x-protobuf")) {
		return 0, fmt.Errorf("%w: %q, want application/x-protobuf", refusal.ErrContentType, contentType)
	}
	for parameter := range bytes.SplitSeq(parameters, []byte(";")) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(parameter), []byte("="))
		if !bytes.EqualFold(bytes.TrimSpace(name), []byte("proto")) {
			continue
		}
		switch string(bytes.Trim(value, "\" \t")) {
		case "prometheus.WriteRequest":
			return parse.RemoteWrite1, nil
		case "io.prometheus.write.v2.Request":
			return parse.RemoteWrite2, nil
		default:
			return 0, fmt.Errorf("%w: %q", refusal.ErrContentType, contentType)
		}
	}
	return parse.RemoteWrite1, nil
}

// answerRemoteWrite answers with plain text; the counts are in headers.
func (f *front) answerRemoteWrite(request *fasthttp.RequestCtx, fl *inFlightWrite, r result, err error) {
	header := &request.Response.Header
	header.Set(headerSamplesWritten, strconv.Itoa(r.accepted))
	header.Set(headerHistogramsWritten, "0")
	header.Set(headerExemplarsWritten, strconv.Itoa(r.exemplars))
	f.setCopies(request, r)
	if err != nil {
		respond(request, refusal.Status(err), contentText, append([]byte(refusal.Message(err)), '\n'))
		return
	}
	f.answerLabelled(request, fl, "series")
}

// keepMetadata hands on what a body says of metrics. The writer of a database may say
// what its metrics mean.
func (f *front) keepMetadata(database []byte, b *parse.Batch) {
	if f.options.Metadata == nil {
		return
	}
	for i := range b.Metadata {
		m := &b.Metadata[i]
		metric, help, unit := b.MetadataText(m)
		f.options.Metadata.KeepMetadata(database, metric, m.Type.String(), help, unit)
	}
}
