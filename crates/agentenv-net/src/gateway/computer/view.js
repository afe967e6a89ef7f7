// A VNC viewer (RFB 3.8, RFC 6143) with the encodings that every server has: raw pixels and copies of what is there.

const status = document.getElementById("status");
const canvas = document.getElementById("screen");
const context = canvas.getContext("2d");
// Of the page: connecting, connected, away (it comes back by itself) or ended.
const show = (state, text) => {
  document.documentElement.dataset.state = state;
  status.textContent = text;
};

const address = new URL("../vnc", location.href);
address.protocol = address.protocol === "https:" ? "wss:" : "ws:";

// How long a lost screen is asked for again: a reset takes seconds, on a busy machine a minute.
const GIVE_UP_MS = 10 * 60_000;
// Between two tries, doubled each time. The gateway lets the first one wait until a reset is over.
const FIRST_PAUSE_MS = 250, LONGEST_PAUSE_MS = 5_000;
// RFC 6455: the deploy is closing, and nothing comes back.
const GOING_AWAY = 1001;

let socket = null, pause = FIRST_PAUSE_MS, lostAt = null, why = "";
// Bytes that have come and were not read yet.
let chunks = [], available = 0, wanted = null;
let buttons = 0;

function connect() {
  [chunks, available, wanted, buttons] = [[], 0, null, 0];
  socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  socket.onmessage = ({ data }) => {
    chunks.push(new Uint8Array(data));
    available += data.byteLength;
    if (wanted && available >= wanted.length) {
      const { length, done } = wanted;
      wanted = null;
      done(take(length));
    }
  };
  socket.onclose = lost;
  // What is no VNC now will be none later.
  run().catch((error) => { socket.onclose = null; socket.close(); show("ended", error.message); });
}

function lost({ code, reason }) {
  // A try that failed has no reason of its own.
  why = reason || why || "the connection was lost";
  lostAt ??= performance.now();
  if (code === GOING_AWAY || performance.now() - lostAt > GIVE_UP_MS) {
    show("ended", `${why}; reload the page to try again`);
    return;
  }
  show("away", `${why}; the screen comes back by itself`);
  setTimeout(connect, pause);
  pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
}

function take(length) {
  const bytes = new Uint8Array(length);
  for (let filled = 0; filled < length;) {
    const part = chunks[0].subarray(0, length - filled);
    bytes.set(part, filled);
    filled += part.length;
    if (part.length === chunks[0].length) chunks.shift();
    else chunks[0] = chunks[0].subarray(part.length);
  }
  available -= length;
  return new DataView(bytes.buffer);
}

const read = (length) => available >= length
  ? Promise.resolve(take(length))
  : new Promise((done) => { wanted = { length, done }; });
const text = (view) => new TextDecoder().decode(view.buffer);
const send = (...bytes) => { if (socket.readyState === WebSocket.OPEN) socket.send(new Uint8Array(bytes.flat())); };
const u16 = (value) => [value >> 8 & 255, value & 255];
const u32 = (value) => [value >>> 24, value >> 16 & 255, value >> 8 & 255, value & 255];

function askForUpdate(incremental) {
  send(3, incremental ? 1 : 0, u16(0), u16(0), u16(canvas.width), u16(canvas.height));
}

async function rectangle() {
  const head = await read(12);
  const [x, y, width, height, encoding] =
    [head.getUint16(0), head.getUint16(2), head.getUint16(4), head.getUint16(6), head.getInt32(8)];
  if (encoding === 1) {
    const from = await read(4);
    context.drawImage(canvas, from.getUint16(0), from.getUint16(2), width, height, x, y, width, height);
  } else if (encoding === 0 && width && height) {
    const pixels = new Uint8ClampedArray((await read(width * height * 4)).buffer);
    for (let at = 3; at < pixels.length; at += 4) pixels[at] = 255;
    context.putImageData(new ImageData(pixels, width, height), x, y);
  }
}

async function run() {
  await read(12);
  send([...new TextEncoder().encode("RFB 003.008\n")]);
  const kinds = await read((await read(1)).getUint8(0));
  if (![...new Uint8Array(kinds.buffer)].includes(1)) throw new Error("the server asks for a password");
  send(1);
  if ((await read(4)).getUint32(0)) throw new Error(text(await read((await read(4)).getUint32(0))));
  send(1);
  const init = await read(24);
  canvas.width = init.getUint16(0);
  canvas.height = init.getUint16(2);
  const name = text(await read(init.getUint32(20)));
  // 32 bits a pixel, true colour, red first: as a canvas has them. Then copies and raw pixels.
  send(0, 0, 0, 0, 32, 24, 0, 1, u16(255), u16(255), u16(255), 0, 8, 16, 0, 0, 0);
  send(2, 0, u16(3), u32(1), u32(0), u32(CLIPBOARD));
  show("connected", name || "connected");
  [pause, lostAt, why] = [FIRST_PAUSE_MS, null, ""];
  askForUpdate(false);
  for (;;) {
    const kind = (await read(1)).getUint8(0);
    if (kind === 0) {
      const count = (await read(3)).getUint16(1);
      for (let at = 0; at < count; at += 1) await rectangle();
      askForUpdate(true);
    } else if (kind === 1) {
      const head = await read(5);
      await read(head.getUint16(3) * 6);
    } else if (kind === 3) {
      const length = (await read(7)).getInt32(3);
      const body = await read(Math.abs(length));
      // What is not of the extension is of a server without it, which only has Latin-1.
      if (length < 0) await clipboardSaid(body.getUint32(0), new Uint8Array(body.buffer, 4));
    } else if (kind !== 2) {
      throw new Error(`the server said ${kind}`);
    }
  }
}

// Copy and paste, by the extended clipboard that TigerVNC has (the RFB protocol of the community, 7.7.27): text of any script, as UTF-8.
const CLIPBOARD = 0xc0a1e5ce;
const [TEXT, CAPS, REQUEST, NOTIFY, PROVIDE] = [1, 1 << 24, 1 << 25, 1 << 27, 1 << 28];
// More than a person copies.
const CLIPBOARD_BYTES = 1 << 20;
// How long after a person's copy the desktop's answer is taken: it comes at once. Nothing else may change what a person has copied.
const COPY_MS = 2_000;
// How soon a paste event follows its keys, where there is something to paste.
const PASTE_MS = 100;
let copyAsked = -Infinity, toPaste = "", pasteKey = null;

function clipboard(action, data = []) {
  send(6, 0, 0, 0, u32(-4 - data.length), u32(action | TEXT), data);
}

async function clipboardSaid(flags, data) {
  if (flags & CAPS) {
    // Nothing is sent that was not asked for.
    clipboard(CAPS | REQUEST | NOTIFY | PROVIDE, u32(0));
  } else if (flags & REQUEST) {
    clipboard(PROVIDE, await packed(toPaste));
  } else if (flags & NOTIFY && flags & TEXT && performance.now() - copyAsked < COPY_MS) {
    clipboard(REQUEST);
  } else if (flags & PROVIDE && flags & TEXT && performance.now() - copyAsked < COPY_MS) {
    copyAsked = -Infinity;
    // The page may lack the right to it: then the person's clipboard stays.
    await navigator.clipboard.writeText(await unpacked(data)).catch(() => {});
  }
}

// Lines end as in Windows, and a zero byte follows; before it all stands its length.
async function packed(text) {
  const bytes = new TextEncoder().encode(`${text.replace(/\r?\n/g, "\r\n")}\0`);
  const stream = new Blob([new Uint8Array(u32(bytes.length)), bytes]).stream().pipeThrough(new CompressionStream("deflate"));
  return [...new Uint8Array(await new Response(stream).arrayBuffer())];
}

async function unpacked(data) {
  const stream = new DecompressionStream("deflate");
  // It has no end: the server goes on with it the next time, as far as it knows.
  stream.writable.getWriter().write(data).catch(() => {});
  const reader = stream.readable.getReader();
  let bytes = new Uint8Array(0), length = null;
  while (length === null || bytes.length < 4 + length) {
    const { value, done } = await reader.read();
    if (done) break;
    bytes = new Uint8Array([...bytes, ...value]);
    if (length === null && bytes.length >= 4) length = Math.min(new DataView(bytes.buffer).getUint32(0), CLIPBOARD_BYTES);
  }
  reader.cancel().catch(() => {});
  return new TextDecoder().decode(bytes.subarray(4, 4 + (length ?? 0))).replace(/\0$/, "").replaceAll("\r\n", "\n");
}

document.addEventListener("paste", (event) => {
  event.preventDefault();
  if (pasteKey === null) return;
  toPaste = event.clipboardData.getData("text/plain").slice(0, CLIPBOARD_BYTES / 4);
  clipboard(NOTIFY);
  pastePressed();
});

// Sends the key that the paste event, or its absence, was waited for with.
function pastePressed() {
  clearTimeout(pasteKey?.timer);
  if (pasteKey) press(1, pasteKey.symbol);
  pasteKey = null;
}

function pointer(event) {
  const frame = canvas.getBoundingClientRect();
  const place = (at, start, length, size) => Math.max(0, Math.min(size - 1, Math.floor((at - start) * size / length)));
  const x = place(event.clientX, frame.left, frame.width, canvas.width);
  const y = place(event.clientY, frame.top, frame.height, canvas.height);
  send(5, buttons, u16(x), u16(y));
  event.preventDefault();
}
const bit = (button) => 1 << button;
canvas.addEventListener("pointermove", pointer);
canvas.addEventListener("pointerdown", (event) => { buttons |= bit(event.button); canvas.focus(); canvas.setPointerCapture(event.pointerId); pointer(event); });
canvas.addEventListener("pointerup", (event) => { buttons &= ~bit(event.button); pointer(event); });
canvas.addEventListener("contextmenu", (event) => event.preventDefault());
canvas.addEventListener("wheel", (event) => {
  const wheel = event.deltaY ? (event.deltaY < 0 ? 8 : 16) : (event.deltaX < 0 ? 32 : 64);
  buttons |= wheel; pointer(event);
  buttons &= ~wheel; pointer(event);
}, { passive: false });

// Keys that are no characters, as X11 numbers them.
const KEYS = {
  Backspace: 0xff08, Tab: 0xff09, Enter: 0xff0d, Escape: 0xff1b, Insert: 0xff63, Delete: 0xffff, Home: 0xff50, End: 0xff57,
  PageUp: 0xff55, PageDown: 0xff56, ArrowLeft: 0xff51, ArrowUp: 0xff52, ArrowRight: 0xff53, ArrowDown: 0xff54, Shift: 0xffe1,
  Control: 0xffe3, Alt: 0xffe9, AltGraph: 0xfe03, Meta: 0xffeb, CapsLock: 0xffe5,
};
for (let at = 1; at <= 12; at += 1) KEYS[`F${at}`] = 0xffbd + at;
function key(event) {
  const point = event.key.codePointAt(0);
  const isCharacter = [...event.key].length === 1;
  const symbol = isCharacter ? (point < 0x100 ? point : 0x1000000 + point) : KEYS[event.key];
  const shortcut = event.type === "keydown" && event.ctrlKey ? event.key.toLowerCase() : "";
  if (shortcut === "v") {
    // Its paste event comes first: what is pasted is announced before the desktop gets the key.
    clearTimeout(pasteKey?.timer);
    pasteKey = { symbol, timer: setTimeout(pastePressed, PASTE_MS) };
    return;
  }
  if (shortcut === "c" || shortcut === "x") copyAsked = performance.now();
  pastePressed();
  if (symbol) press(event.type === "keydown" ? 1 : 0, symbol);
  event.preventDefault();
}
const press = (down, symbol) => send(4, down, 0, 0, u32(symbol));
canvas.addEventListener("keydown", key);
canvas.addEventListener("keyup", key);

connect();
