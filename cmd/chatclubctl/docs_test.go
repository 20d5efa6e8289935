package main

import (
	"testing"

	"chatclub/internal/app/doctest"
	"chatclub/internal/service"
)

func TestSettingsDoc(t *testing.T) {
	t.Parallel()
	doctest.Settings(t, "../../docs/settings.md", "chatclubctl dead", service.Table[deadSettings]())
	doctest.Settings(t, "../../docs/settings.md", "chatclubctl pages", service.Table[pagesSettings]())
	doctest.Settings(t, "../../docs/settings.md", "chatclubctl broadcast", service.Table[broadcastSettings]())
	doctest.Settings(t, "../../docs/settings.md", "chatclubctl status", service.Table[statusSettings]())
	doctest.Settings(t, "../../docs/settings.md", "chatclubctl doctor", service.Table[doctorSettings]())
	doctest.Settings(t, "../../docs/settings.md", "chatclubctl why", service.Table[whySettings]())
}
