package main

import (
	"testing"

	"chatclub/internal/app/doctest"
	"chatclub/internal/service"
)

func TestSettingsDoc(t *testing.T) {
	t.Parallel()
	doctest.Section(t, "../../docs/settings.md", "chatclub", service.Markdown[settings]())
	doctest.Section(t, "../../docs/settings.md", "chatclub watch", service.Markdown[watchSettings]())
}
