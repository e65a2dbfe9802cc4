// Returns a sentence for each overflow: a page that scrolls sideways, and controls that are cut off. Run in a page.
() => {
  const wrong = [], { clientWidth: width, scrollWidth } = document.documentElement;
  if (scrollWidth > width) wrong.push(`the page is ${scrollWidth} wide, the window only ${width}`);
  const scrolls = (at) => at && (/auto|scroll/.test(getComputedStyle(at).overflowX) || scrolls(at.parentElement));
  for (const element of document.querySelectorAll("button, a, input, select, textarea, [role=button], [role=tab]")) {
    const box = element.getBoundingClientRect();
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || box.width <= 1) continue;
    if ((box.right > width + 1 || box.left < -1) && !scrolls(element.parentElement)) wrong.push(`${element.outerHTML.slice(0, 80)} is cut off`);
  }
  return wrong;
};
