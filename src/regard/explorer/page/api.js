// Questions to the server. Nothing else is ever asked of anybody.

class Trouble extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const AT_ONCE = 3; // requests under way; the others wait, the newest kind first

class Api {
  constructor() {
    this.key = sessionStorage.getItem("regard-key");
    this.running = 0;
    this.queue = [];
  }

  async models() {
    return (await this.reply("GET", "models")).json();
  }

  async ask(path, body) {
    return (await this.reply("POST", path, body)).json();
  }

  async bytes(path, body) {
    return (await this.reply("POST", path, body)).arrayBuffer();
  }

  async blob(path, body) {
    return (await this.reply("POST", path, body)).blob();
  }

  async reply(method, path, body) {
    if (this.running >= AT_ONCE) await new Promise((go) => this.queue.push(go));
    this.running += 1;
    try {
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
