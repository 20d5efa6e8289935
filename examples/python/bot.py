"""An echo bot with Python alone: Messenger posts to it, and a dispatcher's POST /messages sends.

APP_SECRET=… VERIFY_TOKEN=… PORT=8081 MESSAGES_URL=http://127.0.0.1:9090/messages MESSAGES_TOKEN=… python3 bot.py
"""
import hashlib, hmac, json, os, urllib.error, urllib.parse, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ["APP_SECRET"].encode()
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("MESSAGES_TOKEN", "")}

def answers(body):
    for entry in body["entry"]:
        for item in entry.get("messaging", []):
            said, user = item.get("message", {}), item.get("sender", {}).get("id")
            if said.get("text") and not said.get("is_echo"):  # an id of the event's makes a repetition harmless
                yield {"id": f"{entry['id']}/{said['mid']}/{user}", "page": entry["id"], "to": user, "time": item["timestamp"],
                       "text": "You said: " + said["text"][:990], "messaging_type": "RESPONSE"}

def send(batch):  # returns the status for Messenger
    request = urllib.request.Request(os.environ["MESSAGES_URL"], json.dumps(batch).encode(), HEADERS)
    try:
        urllib.request.urlopen(request, timeout=4).close()
        return 200
    except urllib.error.HTTPError as error:
        if error.code == 400 and len(batch) > 1:  # one is wrong, and nothing is sent: each by itself
            return max(send([one]) for one in batch)
        return 200 if error.code == 400 else 503  # 400: it would be wrong again
    except OSError:  # no answer: Messenger posts the event again
        return 503

class Webhook(BaseHTTPRequestHandler):
    def do_GET(self):  # Messenger sets the webhook up
        asked = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
        right = asked.get("hub.verify_token") == [os.environ["VERIFY_TOKEN"]]
        self.answer(200 if right else 403, asked.get("hub.challenge", [""])[0] if right else "")
    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        want = "sha256=" + hmac.new(SECRET, raw, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(want, self.headers.get("X-Hub-Signature-256", "")):
            return self.answer(403)
        batch = {one["id"]: one for one in answers(json.loads(raw))}  # an event may be there twice
        self.answer(send(list(batch.values())) if batch else 200)
    def answer(self, status, text=""):
        self.send_response(status); self.end_headers(); self.wfile.write(text.encode())

ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Webhook).serve_forever()
