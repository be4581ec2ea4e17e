package mqtt

import (
	"slices"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// precisions are the units of times in line protocol.
var precisions = map[timeUnit]parse.Precision{unitNs: parse.PrecisionNs, unitUs: parse.PrecisionUs, unitMs: parse.PrecisionMs, unitS: parse.PrecisionS} //nolint:gochecknoglobals // a constant table

// decodeLines reads a payload of line protocol. Tags of lines stand before those of the topic and of the file. Where
// one line is wrong, nothing of the message is written, as its sender has to be mended.
func (s *subscription) decodeLines(payload []byte, tags []label, receivedMs int64) ([]sample, error) {
	var b parse.Batch
	limits := parse.Limits{ErrorsMax: 1}
	if _, err := parse.Lines(&b, payload, parse.LineOptions{Limits: limits, Precision: precisions[s.timeUnit], NowMs: receivedMs}); err != nil {
		return nil, refuse(refusedPayload, "%v", err)
	}
	if b.ErrorsTotal > 0 {
		return nil, refuse(refusedPayload, "%s: publish line protocol, or say another format for this topic", b.Errors[0].Error())
	}
	if len(b.Points) > samplesMax {
		return nil, refuse(refusedSize, "the message has more than %d numbers: publish fewer at once", samplesMax)
	}
	all := make([]sample, 0, len(b.Points))
	var keys parse.KeyBuilder
	for i := range b.Lines {
		l := &b.Lines[i]
		if err := keys.Start(&b, l, nil, limits); err != nil {
			return nil, refuse(refusedPayload, "%v: publish line protocol, or say another format for this topic", err)
		}
		for _, p := range b.Points[l.First : l.First+l.Count] {
			key, err := keys.Key(b.Field(&p), p.FieldEscaped)
			if err != nil {
				return nil, refuse(refusedPayload, "%v: publish shorter names", err)
			}
			labels, err := labelsOf(key, tags)
			if err != nil {
				return nil, refuse(refusedPayload, "%v", err)
			}
			all = append(all, sample{labels, series.Number{Mantissa: p.Mantissa, Scale: p.Scale}.Float64(), p.TimeMs})
		}
	}
	if len(all) == 0 {
		return nil, refuse(refusedEmpty, "the lines hold no number")
	}
	return all, nil
}

// labelsOf returns the labels of a key, and those tags that it does not have.
func labelsOf(key series.Key, tags []label) ([]label, error) {
	_, metric, own, err := key.Parts(nil)
	if err != nil {
		return nil, err
	}
	labels := append(make([]label, 0, 1+len(own)+len(tags)), label{labelMetric, string(metric)})
	for _, tag := range own {
		labels = append(labels, label{string(tag.Name), string(tag.Value)})
	}
	for _, tag := range tags {
		if !slices.ContainsFunc(labels, func(l label) bool { return l.name == tag.name }) {
			labels = append(labels, tag)
		}
	}
	return labels, nil
}
