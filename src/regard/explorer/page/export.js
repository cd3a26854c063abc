// To take away: pictures and numbers from the server, panels from the page itself.

function download(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** A panel as an SVG picture: its own markup and style, canvases as images. Browsers and most editors open it. */
function panelPicture(panel) {
  const { width, height } = panel.getBoundingClientRect();
  const copy = panel.cloneNode(true);
  const drawn = [...panel.querySelectorAll("canvas")];
  copy.querySelectorAll("canvas").forEach((canvas, i) => {
    const image = element("img", { src: drawn[i].toDataURL(), alt: "" });
    image.style.cssText = drawn[i].style.cssText;
    canvas.replaceWith(image);
  });
  const root = document.documentElement;
  const css = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules].map((rule) => rule.cssText)).join("\n");
  const themed = css.replaceAll(":root", ".exported").replace(/\bbody\b/g, ".exported");
  const box = element("div", { class: "exported", "data-theme": root.dataset.theme, xmlns: "http://www.w3.org/1999/xhtml" }, element("style", {}, themed), copy);
  box.style.cssText = "padding:0;max-width:none";
  const text = new XMLSerializer().serializeToString(box);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${Math.ceil(width)}" height="${Math.ceil(height)}"><foreignObject width="100%" height="100%">${text}</foreignObject></svg>`;
}

async function exportPanel(panel, format, name) {
  const picture = panelPicture(panel);
  if (format === "svg") return download(new Blob([picture], { type: "image/svg+xml" }), `${name}.svg`);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture)}`;
  await image.decode();
  const canvas = element("canvas");
  const context = sharpen(canvas, image.width, image.height);
  context.drawImage(image, 0, 0, image.width, image.height);
  const blob = await new Promise((made) => canvas.toBlob(made, "image/png"));
  download(blob, `${name}.png`);
}
