package mqtt

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// reason is why a message, or points of it, were refused, as metrics name it.
type reason uint8

const (
	refusedTopic   reason = iota // no subscription knows it, or its levels make no name
	refusedPayload               // not of the format
	refusedEmpty                 // it holds no number
	refusedTime
	refusedSize
	reasons
)

var reasonNames = [reasons]string{"topic", "payload", "empty", "time", "size"} //nolint:gochecknoglobals // a constant table

// refusal describes why nothing of a message is written. Another try would not help.
type refusal struct {
	reason reason
	text   string // what is wrong, and what helps
}

// Error implements error.
func (r *refusal) Error() string { return r.text }

func refuse(r reason, format string, args ...any) error {
	return &refusal{r, fmt.Sprintf(format, args...)}
}

// reasonOf returns the reason of an error of decode.
func reasonOf(err error) reason {
	if r := (*refusal)(nil); errors.As(err, &r) {
		return r.reason
	}
	return refusedPayload
}

// label is a label of a series.
type label struct{ name, value string }

// sample is a number of a series.
type sample struct {
	labels []label // with the metric; names once each
	value  float64
	timeMs int64
}

// samplesMax bounds the samples of one message.
const samplesMax = 10_000

// decode returns the samples of a message. Errors: *refusal.
func (s *subscription) decode(topic string, payload []byte, receivedMs int64) ([]sample, error) {
	values, ok := s.pattern.match(topic)
	if !ok || !utf8.ValidString(topic) {
		return nil, refuse(refusedTopic, "no subscription matches the topic")
	}
	tags, err := s.tagsOf(values)
	if err != nil {
		return nil, err
	}
	switch s.format {
	case formatValue:
		return s.decodeValue(payload, values, tags, receivedMs)
	case formatLine:
		return s.decodeLines(payload, tags, receivedMs)
	default:
		return s.decodeJSON(payload, values, tags, receivedMs)
	}
}

// tagsOf returns the tags that all of a message's series have: those of the file, and named levels of the topic.
func (s *subscription) tagsOf(values []named) ([]label, error) {
	tags := make([]label, len(s.tags), len(s.tags)+len(values))
	copy(tags, s.tags)
	for _, v := range values {
		if v.name == metricLevel {
			continue
		}
		if v.value == "" {
			return nil, refuse(refusedTopic, "the level {%s} of the topic is empty: publish to a topic with it, or write + for it in the subscription", v.name)
		}
		tags = append(tags, label(v))
	}
	return tags, nil
}

// series returns the labels of a metric with tags.
func (s *subscription) series(values []named, tags []label, field string) ([]label, error) {
	metric := s.metric.name(values, field)
	if metric == "" {
		return nil, refuse(refusedTopic, "the topic makes no name of a metric: say it by the key metric of the subscription")
	}
	return append([]label{{labelMetric, metric}}, tags...), nil
}

// decodeValue reads a payload that is one number, or a word for 1 or 0.
func (s *subscription) decodeValue(payload []byte, values []named, tags []label, receivedMs int64) ([]sample, error) {
	text := strings.TrimSpace(string(payload[:min(len(payload), valueBytesMax)]))
	v, ok := numberOfText(text)
	if !ok || len(payload) > valueBytesMax {
		return nil, refuse(refusedPayload, "%q is no number: subscribe with format json or line, or narrow the topic", text)
	}
	labels, err := s.series(values, tags, "")
	if err != nil {
		return nil, err
	}
	return []sample{{labels, v, receivedMs}}, nil
}
