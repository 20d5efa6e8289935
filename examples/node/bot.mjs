// An echo bot with Node.js alone: Messenger posts to it, and a dispatcher's POST /messages sends.
//
// APP_SECRET=… VERIFY_TOKEN=… PORT=8081 MESSAGES_URL=http://127.0.0.1:9090/messages MESSAGES_TOKEN=… node bot.mjs
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const { APP_SECRET, VERIFY_TOKEN, PORT, MESSAGES_URL, MESSAGES_TOKEN } = process.env

function* answers(body) {
  for (const entry of body.entry)
    for (const { message, sender, timestamp } of entry.messaging ?? [])
      if (message?.text && !message.is_echo) // an id of the event's makes a repetition harmless
        yield { id: `${entry.id}/${message.mid}/${sender.id}`, page: entry.id, to: sender.id, time: timestamp,
          text: 'You said: ' + message.text.slice(0, 1900), messaging_type: 'RESPONSE' }
}

function signed(raw, header = '') {
  const want = Buffer.from('sha256=' + createHmac('sha256', APP_SECRET).update(raw).digest('hex'))
  return header.length === want.length && timingSafeEqual(want, Buffer.from(header))
}

async function send(batch) { // returns false where Messenger is to post the events again
  const { status } = await fetch(MESSAGES_URL, {
    method: 'POST', body: JSON.stringify(batch), signal: AbortSignal.timeout(4000),
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${MESSAGES_TOKEN ?? ''}` },
  }).catch(() => ({})) // no answer
  if (status !== 400 || batch.length === 1) return status === 202 || status === 400 // 400: it would be wrong again
  let all = true
  for (const one of batch) all = await send([one]) && all // one is wrong, and nothing is sent: each by itself
  return all
}

createServer(async (request, response) => {
  if (request.method === 'GET') { // Messenger sets the webhook up
    const asked = new URL(request.url, 'http://bot').searchParams
    const right = asked.get('hub.verify_token') === VERIFY_TOKEN
    return response.writeHead(right ? 200 : 403).end(right ? asked.get('hub.challenge') : '')
  }
  const parts = []
  for await (const part of request) parts.push(part)
  const raw = Buffer.concat(parts)
  if (!signed(raw, request.headers['x-hub-signature-256'])) return response.writeHead(403).end()
  const batch = new Map([...answers(JSON.parse(raw))].map(one => [one.id, one])) // an event may be there twice
  const sent = batch.size === 0 || await send([...batch.values()])
  response.writeHead(sent ? 200 : 503).end() // 503: Messenger posts the event again
}).listen(PORT, '127.0.0.1')
