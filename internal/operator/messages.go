package operator

import "net/http"

func (h *Handler) getMessages(r *http.Request) (any, error) {
	mid := r.URL.Query().Get("mid")
	if mid == "" {
		return nil, badField("mid", "must be given")
	}
	found, err := h.cfg.Store.FindEvents(r.Context(), r.URL.Query().Get("page"), mid)
	if err != nil {
		return nil, err
	}
	return map[string]any{"messages": listed(found)}, nil
}

func (h *Handler) getPeople(r *http.Request) (any, error) {
	psid := r.URL.Query().Get("psid")
	if psid == "" {
		return nil, badField("psid", "must be given")
	}
	found, err := h.cfg.Store.FindPeople(r.Context(), r.URL.Query().Get("page"), psid)
	if err != nil {
		return nil, err
	}
	return map[string]any{"people": listed(found)}, nil
}
