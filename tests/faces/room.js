// What does not fit: a page that scrolls sideways, a control that is out of reach: a sentence for each. Run in a page.
() => {
  const wrong = [], { clientWidth: room, scrollWidth: wide } = document.documentElement;
  if (wide > room) wrong.push(`the page is ${wide} wide, and there is room for ${room}`);
  const scrolls = (at) => at && (/auto|scroll/.test(getComputedStyle(at).overflowX) || scrolls(at.parentElement));
  for (const element of document.querySelectorAll("button, a, input, select, textarea, [role=button], [role=tab]")) {
    const box = element.getBoundingClientRect();
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || box.width <= 1) continue;
    if ((box.right > room + 1 || box.left < -1) && !scrolls(element.parentElement)) wrong.push(`${element.outerHTML.slice(0, 80)} is cut off`);
  }
  return wrong;
};
