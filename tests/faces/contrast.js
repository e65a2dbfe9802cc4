// Returns a sentence for each text whose contrast is below WCAG AA. Run in a page.
() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const linear = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const around = function* (element) {
    for (let at = element; at; at = at.parentElement) yield getComputedStyle(at);
  };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches && getComputedStyle(document.documentElement).colorScheme.includes("dark");
  const behind = (element) =>
    [...around(element)].reverse().reduce((below, style) => over(rgba(style.backgroundColor), below), rgba(dark ? "black" : "white"));
  const shown = (element, style) => {
    const box = element.getBoundingClientRect();
    const visible = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    return visible && box.width > 2 && box.height > 2 && style.clipPath === "none" && !/rect\(/.test(style.clip);
  };

  const wrong = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.data.trim().slice(0, 40), style = getComputedStyle(element);
    if (!text || element.closest("[disabled], [aria-disabled=true]") || !shown(element, style)) continue;
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    const [r, g, b, alpha] = rgba(element.ownerSVGElement ? style.fill : style.color);
    const fade = [...around(element)].reduce((all, each) => all * parseFloat(each.opacity), 1);
    const ground = behind(element), lights = [light(over([r, g, b, alpha * fade], ground)), light(ground)];
    const ratio = (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
    if (ratio < (large ? 3 : 4.5) - 0.01) wrong.set(element.className + text, `"${text}" has a contrast of ${ratio.toFixed(2)}`);
  }
  return [...wrong.values()];
};
