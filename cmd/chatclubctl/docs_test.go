package main

import (
	"testing"

	"chatclub/internal/app/doctest"
	"chatclub/internal/service"
)

func TestSettingsDoc(t *testing.T) {
	t.Parallel()
	doctest.Section(t, "../../docs/settings.md", "chatclubctl dead", service.Markdown[deadSettings]())
	doctest.Section(t, "../../docs/settings.md", "chatclubctl pages", service.Markdown[pagesSettings]())
	doctest.Section(t, "../../docs/settings.md", "chatclubctl broadcast", service.Markdown[broadcastSettings]())
	doctest.Section(t, "../../docs/settings.md", "chatclubctl trace", service.Markdown[traceSettings]())
}
