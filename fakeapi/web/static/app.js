// The page's own wiring: one stream has the numbers, the phones and the settings.
import { el } from "./dom.js";
import { pageName } from "./format.js";
import { onSelect, selected, showNumbers } from "./numbers.js";
import { newPhones } from "./phones.js";
import { listen } from "./stream.js";
import { showSettings } from "./switches.js";

const phones = newPhones(el("phones"), el("add"), pageName, p => Number(p.id) % 8);

function showPhones(r) {
  el("no-phones").hidden = r.max > 0;
  el("add").hidden = el("phones").hidden = r.max === 0;
  phones.show(r);
}

// The selected page's numbers come even when others are busier.
const address = () => "events?page=" + encodeURIComponent(selected() ?? "");
onSelect(listen(address, { numbers: showNumbers, phones: showPhones, settings: showSettings }));
