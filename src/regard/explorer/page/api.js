// Questions to the server. Nothing else is ever asked of anybody.

class Trouble extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** A question that was let go of before it was sent. */
class Unwanted extends Trouble {}

const AT_ONCE = 3; // requests under way; the others wait, and the newest goes first

class Api {
  constructor() {
    this.key = sessionStorage.getItem("regard-key");
    this.running = 0;
    this.queue = [];
  }

  async models() {
    return (await this.reply("GET", "models")).json();
  }

  async ask(path, body, manner) {
    return (await this.reply("POST", path, body, manner)).json();
  }

  async bytes(path, body, manner) {
    return (await this.reply("POST", path, body, manner)).arrayBuffer();
  }

  async blob(path, body) {
    return (await this.reply("POST", path, body)).blob();
  }

  /** What must come `soon` waits for nothing; what nobody `wanted` any more, when its turn came, is not sent. */
  async reply(method, path, body, { soon = false, wanted = () => true } = {}) {
    if (soon) return this.send(method, path, body);
    if (this.running >= AT_ONCE) await new Promise((go) => this.queue.push(go));
    this.running += 1;
    try {
      if (!wanted()) throw new Unwanted(0, "nobody waits for this any more");
      return await this.send(method, path, body);
    } finally {
      this.running -= 1;
      this.queue.pop()?.();
    }
  }

  async send(method, path, body, again = true) {
    const headers = body ? { "Content-Type": "application/json" } : {};
    if (this.key) headers.Authorization = `Bearer ${this.key}`;
    const reply = await fetch(`v1/${path}`, { method, headers, body: body && JSON.stringify(body) });
    if (reply.ok) return reply;
    if (reply.status === 401) {
      await this.askForKey();
      return this.send(method, path, body, again);
    }
    if (reply.status === 404 && path.startsWith("look/") && again && this.renew) {
      await this.renew(); // the server kept other examples in the meantime
      return this.send(method, path, body, false);
    }
    const told = await reply.json().catch(() => null);
    throw new Trouble(reply.status, told?.error?.message ?? `the server said ${reply.status}`);
  }

  askForKey() {
    return new Promise((known) => {
      $("key-text").value = "";
      $("key").addEventListener(
        "close",
        () => {
          this.key = $("key-text").value.trim();
          sessionStorage.setItem("regard-key", this.key);
          known();
        },
        { once: true },
      );
      $("key").showModal();
    });
  }
}
