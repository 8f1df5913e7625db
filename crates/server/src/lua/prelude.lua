-- The functions of Lua's base library that a script gets in another form, because some tables look empty to Lua (they are
-- read through a metatable, so that nothing in them can be changed) and some errors travel in a form of the engine's own.
--
-- `reals` leads from each such table to what is behind it. `shown` and `plain` turn a caught error into what a script
-- sees; `wrong` and `readonly` raise errors in the name of the function that the script called.

local reals, shown, plain, wrong, readonly = ...
local next, pcall, rawget, rawset, select, setmetatable, type, xpcall =
  next, pcall, rawget, rawset, select, setmetatable, type, xpcall
local resume = coroutine.resume

local function settle(ok, ...)
  if ok then return true, ... end
  return false, plain((...))
end

local function reveal(ok, ...)
  if ok then return true, ... end
  return false, shown((...))
end

local function through(proxy, key)
  return next(reals[proxy], key)
end

local base = {}

function base.pcall(...)
  if select('#', ...) == 0 then wrong(1, 'pcall', 'value expected') end
  return settle(pcall(...))
end

function base.xpcall(f, handler)
  return reveal(xpcall(f, function(failure) return handler(shown(failure)) end))
end

function base.resume(...)
  return reveal(resume(...))
end

function base.pairs(t)
  if reals[t] then return through, t, nil end
  if type(t) ~= 'table' then wrong(1, 'pairs', 'table expected', t) end
  return next, t, nil
end

function base.rawget(t, key)
  if type(t) ~= 'table' then wrong(1, 'rawget', 'table expected', t) end
  return rawget(reals[t] or t, key)
end

function base.rawset(t, key, value)
  if reals[t] then readonly() end
  if type(t) ~= 'table' then wrong(1, 'rawset', 'table expected', t) end
  return rawset(t, key, value)
end

function base.setmetatable(t, metatable)
  if reals[t] then readonly() end
  if type(t) ~= 'table' then wrong(1, 'setmetatable', 'table expected', t) end
  if metatable ~= nil and type(metatable) ~= 'table' then wrong(2, 'setmetatable', 'nil or table expected') end
  return setmetatable(t, metatable)
end

-- Calls a library's function with what FCALL was given.
function base.enter(f, handler, keys, args)
  return xpcall(function() return f(keys, args) end, handler)
end

return base
