package replicas

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// settings are those that cores and dispatchers must have in common.
type settings struct {
	Protocol int `json:"protocol"` // its version
	Text     int `json:"limit_text"`
	Media    int `json:"limit_media"`
}

// toldSettings is the answer of GET /settings.
type toldSettings struct {
	Program string `json:"program"` // empty: an earlier version, without settings
	settings
	Differ []toldSettings `json:"differ"` // of other programs, as this one heard
}

// DifferingSettings asks cores and dispatchers for the settings that must be equal. It returns
// who has which, or "" where all are equal. A program that does not answer is left out. A kind
// of program that is not asked is as the others heard of its settings.
func (f Fleet) DifferingSettings(ctx context.Context) string {
	asked := slices.Concat(f.Core, f.Dispatchers)
	told := make([]toldSettings, len(asked))
	_ = Each(asked, func(i int, r Replica) error {
		return f.Ask(ctx, http.MethodGet, r.URL+"/settings", nil, &told[i])
	})
	has := map[string]bool{"core": len(f.Core) > 0, "dispatcher": len(f.Dispatchers) > 0}
	names := make(map[settings][]string)
	for i, t := range told {
		if t.Program == "" {
			continue
		}
		names[t.settings] = append(names[t.settings], t.Program+" "+asked[i].Name)
		for _, other := range t.Differ {
			if name := "a " + other.Program; !has[other.Program] && !slices.Contains(names[other.settings], name) {
				names[other.settings] = append(names[other.settings], name)
			}
		}
	}
	if len(names) < 2 {
		return ""
	}
	var parts []string
	for s, who := range names {
		parts = append(parts, fmt.Sprintf("LIMIT_TEXT=%d LIMIT_MEDIA=%d, protocol %d: %s", s.Text, s.Media, s.Protocol, strings.Join(who, ", ")))
	}
	slices.SortFunc(parts, cmp.Compare)
	return strings.Join(parts, "; ")
}
