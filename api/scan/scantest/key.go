package scantest

import "github.com/tickmesh/tickmesh/api/series"

// Key builds a key from names and values of tags in turn, for tests.
func Key(database, metric string, namesAndValues ...string) series.Key {
	var tags []series.Tag
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		tags = append(tags, series.Tag{Name: []byte(namesAndValues[i]), Value: []byte(namesAndValues[i+1])})
	}
	return series.AppendKey(nil, []byte(database), []byte(metric), tags)
}
