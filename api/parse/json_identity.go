package parse

import "github.com/tickmesh/tickmesh/api/series"

// readJSON reads the identity of a datapoint: the raw values of metric and tags.
func (k *KeyBuilder) readJSON(metric, tags []byte) fault {
	k.reset()
	s := jsonScanner{b: metric}
	k.metric = k.jsonText(metric, s.value(0))
	if len(tags) > 0 && tags[0] == '{' {
		wrong := fault{}
		s = jsonScanner{b: tags}
		s.object(func(name jsonValue) {
			v := s.value(2)
			if v.kind == jsonObject || v.kind == jsonArray || v.kind == jsonNull {
				wrong = syntaxFault("Invalid tag value with key " + string(tags[name.Start:name.End]) + ": must be a string")
			}
			k.tags = append(k.tags, series.Tag{Name: k.jsonText(tags, name), Value: k.jsonText(tags, v)})
		})
		if wrong.detail != "" {
			return wrong
		}
	}
	k.sortTags()
	k.dropRepeated()
	for i := range k.tags {
		if len(k.tags[i].Name) == 0 {
			return syntaxFault("Invalid tag name: empty string")
		}
		if len(k.tags[i].Value) == 0 {
			return syntaxFault("Invalid tag value: empty string")
		}
	}
	return k.checkCharacters()
}

// jsonText returns the text of a string, number or boolean.
func (k *KeyBuilder) jsonText(b []byte, v jsonValue) []byte {
	raw := b[v.Start:v.End]
	switch {
	case v.kind != jsonString:
		return raw
	case !v.escaped:
		return raw[1 : len(raw)-1]
	}
	start := len(k.text)
	k.text = appendJSONText(k.text, raw)
	return k.text[start:len(k.text):len(k.text)]
}
