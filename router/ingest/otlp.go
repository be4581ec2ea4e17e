package ingest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/valyala/fasthttp"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// Media types of OTLP over HTTP: https://opentelemetry.io/docs/specs/otlp/#otlphttp
const (
	contentProtobuf = "application/x-protobuf"
	contentOTLPJSON = "application/json"
)

// Bounds of bodies in JSON, whose messages take far more memory than their text:
// `{},` makes a data point.
const (
	otlpJSONBytesMax  = 2 << 20
	otlpJSONMemory    = 64 // bytes held for each byte of the text
	otlpJSONDepthMax  = 64
	otlpMessageErrors = 10 // texts of refused data points in an answer
)

// parseOTLP takes the body of /v1/metrics: ExportMetricsServiceRequest, in protobuf or JSON.
func (f *front) parseOTLP(request *fasthttp.RequestCtx, fl *inFlightWrite, body []byte) error {
	switch media := mediaOf(request); {
	case bytes.EqualFold(media, []byte(contentProtobuf)):
	case bytes.EqualFold(media, []byte(contentOTLPJSON)):
		var err error
		if body, err = fl.otlpOfJSON(body); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: %q, want %s or %s", refusal.ErrContentType, media, contentProtobuf, contentOTLPJSON)
	}
	return parse.OTLP(&fl.worker.batch, body, f.options.Limits.Line)
}

// mediaOf returns the Content-Type of a request without its parameters.
func mediaOf(request *fasthttp.RequestCtx) []byte {
	media, _, _ := bytes.Cut(request.Request.Header.ContentType(), []byte(";"))
	return bytes.TrimSpace(media)
}

// otlpOfJSON returns the message that a body in JSON stands for. MetricsData is
// ExportMetricsServiceRequest by another name. A body that is parsed again pays once.
func (fl *inFlightWrite) otlpOfJSON(body []byte) ([]byte, error) {
	if len(body) > otlpJSONBytesMax {
		return nil, fmt.Errorf("%w: %d bytes of JSON, at most %d; protobuf may be longer", refusal.ErrBodyTooLarge, len(body), otlpJSONBytesMax)
	}
	if !fl.again {
		if err := fl.memory.Grow(otlpJSONMemory * len(body)); err != nil {
			return nil, err
		}
	}
	var message metricspb.MetricsData
	options := protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: otlpJSONDepthMax}
	if err := options.Unmarshal(body, &message); err != nil {
		return nil, fmt.Errorf("%w: %s", parse.ErrMalformed, err.Error())
	}
	mendTraces(&message)
	encoded, err := proto.Marshal(&message)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", parse.ErrMalformed, err.Error())
	}
	return encoded, nil
}

// mendTraces reads the identifiers of traces in exemplars anew: OTLP writes them in hexadecimal, and JSON of protobuf, which has read them, in
// base64.
func mendTraces(message *metricspb.MetricsData) {
	mend := func(exemplars []*metricspb.Exemplar) {
		for _, e := range exemplars {
			e.TraceId, e.SpanId = hexadecimalOf(e.GetTraceId()), hexadecimalOf(e.GetSpanId())
		}
	}
	for _, resource := range message.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				for _, p := range m.GetSum().GetDataPoints() {
					mend(p.GetExemplars())
				}
				for _, p := range m.GetHistogram().GetDataPoints() {
					mend(p.GetExemplars())
				}
				for _, p := range m.GetExponentialHistogram().GetDataPoints() {
					mend(p.GetExemplars())
				}
			}
		}
	}
}

// hexadecimalOf returns the bytes of a hexadecimal text that was read as base64; nil where it was none. Such texts have a multiple of four
// digits, so they are what is encoded again.
func hexadecimalOf(misread []byte) []byte {
	id, err := hex.DecodeString(base64.StdEncoding.EncodeToString(misread))
	if err != nil {
		return nil
	}
	return id
}

// answerOTLP answers with ExportMetricsServiceResponse, or with google.rpc.Status, in the encoding of the request.
// Samples that were refused are a partial success, which no client sends again.
func (f *front) answerOTLP(request *fasthttp.RequestCtx, fl *inFlightWrite, r result, err error) {
	f.setCopies(request, r)
	inJSON := bytes.EqualFold(mediaOf(request), []byte(contentOTLPJSON))
	content := contentProtobuf
	if inJSON {
		content = contentOTLPJSON
	}
	if err != nil {
		respond(request, refusal.Status(err), content, otlpStatus(refusal.Status(err), refusal.Message(err), inJSON))
		return
	}
	rejected, message := otlpRefusals(fl.batch())
	respond(request, fasthttp.StatusOK, content, otlpResponse(rejected, message, inJSON))
}

// otlpRefusals returns how many data points were refused, and why.
func otlpRefusals(b *parse.Batch) (points int, message string) {
	var text []byte
	for i := range min(len(b.Errors), otlpMessageErrors) {
		if i > 0 {
			text = append(text, "; "...)
		}
		text = b.Errors[i].AppendTo(text)
	}
	if more := b.ErrorsTotal - otlpMessageErrors; more > 0 {
		text = fmt.Appendf(text, "; and %d more", more)
	}
	return b.ErrorPoints, strings.ToValidUTF8(string(text), "\uFFFD") // it quotes names as they came
}

// otlpResponse returns ExportMetricsServiceResponse: partial_success = 1 of rejected_data_points = 1,
// error_message = 2.
func otlpResponse(rejected int, text string, inJSON bool) []byte {
	if inJSON {
		if rejected == 0 {
			return []byte("{}")
		}
		encoded, _ := json.Marshal(map[string]any{ // strings can always be encoded
			"partialSuccess": map[string]any{"rejectedDataPoints": fmt.Sprint(rejected), "errorMessage": text},
		})
		return encoded
	}
	if rejected == 0 {
		return nil
	}
	partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(rejected))
	partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType), text)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
}

// otlpStatus returns google.rpc.Status: code = 1, message = 2.
func otlpStatus(status int, text string, inJSON bool) []byte {
	code := otlpCode(status)
	if inJSON {
		encoded, _ := json.Marshal(map[string]any{"code": code, "message": text}) // strings can always be encoded
		return encoded
	}
	encoded := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(code))
	return protowire.AppendString(protowire.AppendTag(encoded, 2, protowire.BytesType), text)
}

// otlpCode returns the code of gRPC for a status of HTTP. Of these only Unavailable has clients send again.
func otlpCode(status int) codes.Code {
	switch status {
	case fasthttp.StatusUnauthorized:
		return codes.Unauthenticated
	case fasthttp.StatusForbidden:
		return codes.PermissionDenied
	case fasthttp.StatusServiceUnavailable:
		return codes.Unavailable
	}
	return codes.InvalidArgument
}
