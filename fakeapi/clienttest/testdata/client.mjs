// Reads a job from standard input, does it with the client library alone and
// writes what the library said, as JSON, to standard output.
import { readFileSync } from "node:fs";
import { Messenger, MessengerAPIError, extractWebhookEvents, getAttachmentUrls, getWebhookEventType, verifyWebhookSignature } from "@warriorteam/messenger-sdk";

const job = JSON.parse(readFileSync(0, "utf8"));

async function send(client, s) {
  if (s.action) return client.send.action(s.to, s.action);
  const message = s.image ? { attachment: { type: "image", payload: { url: s.image } } } : { text: s.text };
  return client.send.message({ recipient: { id: s.to }, messaging_type: "UPDATE", message: { ...message, metadata: s.id } });
}

async function sends() {
  const results = [];
  for (const s of job.sends ?? []) {
    const client = new Messenger({ accessToken: s.token, baseUrl: job.base });
    try {
      const { recipient_id, message_id } = await send(client, s);
      results.push({ recipient: recipient_id, mid: message_id });
    } catch (e) {
      if (!(e instanceof MessengerAPIError)) throw e;
      results.push({ code: e.code, subcode: e.subcode, type: e.type, trace: e.fbtrace_id, status: e.statusCode, message: e.message });
    }
  }
  return results;
}

async function webhooks() {
  const results = [];
  for (const w of job.webhooks ?? []) {
    const body = Buffer.from(w.body, "base64");
    const { isValid } = await verifyWebhookSignature(body, w.signature, job.secret);
    const events = extractWebhookEvents(JSON.parse(body)).map((e) => ({
      type: getWebhookEventType(e),
      sender: e.sender.id,
      text: e.message?.text ?? e.postback?.payload ?? "",
      pictures: e.message?.attachments ? getAttachmentUrls(e.message) : [],
    }));
    results.push({ valid: isValid, events });
  }
  return results;
}

process.stdout.write(JSON.stringify({ sends: await sends(), webhooks: await webhooks() }));
